import assert from "node:assert/strict";
import { test } from "node:test";
import { contextOf } from "../src/embed/context.js";
import { problemIn, refused } from "../src/wire/problem.js";

/** Return what posts under a held context, and the contexts that went out. */
function setting() {
  const held = { current: "lamps" as string | null };
  const went: (string | undefined)[] = [];
  const withContext = contextOf(held);
  const post = (key: string, error: Error | null = null, session = "ses_1"): Promise<void> =>
    withContext(session, key, async (context) => {
      went.push(context);
      if (error) throw error;
    }).catch((thrown: unknown) => assert.equal(thrown, error));
  return { held, went, post };
}

test("what went out with a message that was refused goes with the next one", async () => {
  for (const status of [401, 404, 409, 413, 422, 429]) {
    const { went, post } = setting();
    await post("k1", problemIn(status, {}, null));
    await post("k2");
    await post("k3");
    assert.deepEqual(went, ["lamps", "lamps", undefined], String(status));
  }
});

test("a message that may have arrived is repeated as it was, whatever the page says meanwhile", async () => {
  for (const error of [new TypeError("Failed to fetch"), problemIn(503, {}, null), refused()]) {
    const { held, went, post } = setting();
    await post("k1", error);
    held.current = "chairs";
    await post("k1");
    await post("k2");
    await post("k3");
    assert.deepEqual(went, ["lamps", "lamps", "chairs", undefined]);
  }
});

test("a key that is used again after it was answered is another message's", async () => {
  const { held, went, post } = setting();
  await post("k1");
  held.current = "chairs";
  await post("k1");
  held.current = "beds";
  await post("k2", problemIn(404, {}, null));
  await post("k2", null, "ses_2"); // the conversation was gone: the same message opens another
  await post("k3", null, "ses_2");
  assert.deepEqual(went, ["lamps", "chairs", "beds", "beds", undefined]);
});
