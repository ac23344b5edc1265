/** The attributes of the element, and its properties of the same meaning. */

/** The properties that reflect an attribute of the same name in kebab case: those that hold text, and those that are there or not. */
const TEXTS = ["server", "agent", "token", "tokenUrl", "storageKey", "heading", "greeting", "placeholder", "position", "conversation", "locale", "theme", "update"] as const;
const FLAGS = ["anonymous", "launcher", "links", "debug"] as const;

/** The attributes that replace words of the frame. */
export const WORDS = ["heading", "greeting", "placeholder"] as const;
export const OBSERVED: readonly string[] = [...[...TEXTS, ...FLAGS].map(attributeOf), "open", "lang"];
/** Those that the style sheet alone reads, or that are read when they are needed. */
export const QUIET: readonly string[] = ["position", "debug", "theme", "update"];

export type Properties = { -readonly [K in (typeof TEXTS)[number]]: string | null } & { [K in (typeof FLAGS)[number]]: boolean };

/** Give *type* the properties that reflect attributes. */
export function reflect(type: { readonly prototype: HTMLElement }): void {
  for (const name of [...TEXTS, ...FLAGS]) {
    const attribute = attributeOf(name);
    const isFlag = (FLAGS as readonly string[]).includes(name);
    Object.defineProperty(type.prototype, name, {
      get(this: HTMLElement) {
        return isFlag ? this.hasAttribute(attribute) : this.getAttribute(attribute);
      },
      set(this: HTMLElement, value: unknown) {
        if (isFlag) this.toggleAttribute(attribute, Boolean(value));
        else if (value === null || value === undefined) this.removeAttribute(attribute);
        else this.setAttribute(attribute, String(value));
      },
    });
  }
}

function attributeOf(property: string): string {
  return property.replace(/[A-Z]/g, (each) => `-${each.toLowerCase()}`);
}

/** Return the address of the server, without a slash at its end; empty for the page's own origin. */
export function serverOf(element: Element): string {
  return (element.getAttribute("server") ?? "").replace(/\/+$/, "");
}

/** Return the key under which the browser keeps what belongs to this server and agent. */
export function storageKeyOf(element: Element): string {
  return element.getAttribute("storage-key") ?? `parley:${serverOf(element)}:${element.getAttribute("agent") ?? ""}`;
}
