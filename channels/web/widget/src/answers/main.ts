/** The chunk of what is around answers and questions: actions, sources, suggestions, files; loaded with the first of them. */

import { adopt } from "../styles/adopt.js";
import type { SentFile } from "../wire/upload.js";
import type { Answer, Question } from "../transcript/entries.js";
import type { Scene } from "../transcript/scene.js";
import * as answers from "./answer.js";
import type { Draw } from "./cite.js";
import css from "./answers.css";
import * as files from "./file.js";
import * as questions from "./question.js";
import { wordsOf } from "./words.js";

/** Return a function that shows in *host* what is under an answer, whose blocks *body* shows. */
export function answerFoot(host: HTMLElement, body: HTMLElement, scene: Scene, draw: Draw): (answer: Answer) => void {
  adopt(host, css);
  return answers.answerFoot(host, body, scene, draw, wordsOf(scene.strings));
}

/** Return a function that shows in *host* what can be done with a person's own message, which *bubble* shows. */
export function questionFoot(host: HTMLElement, bubble: HTMLElement, scene: Scene): (question: Question) => void {
  adopt(host, css);
  if (!scene.offers) return () => undefined;
  return questions.questionFoot(host, bubble, scene, scene.offers, wordsOf(scene.strings));
}

/** Show in *host* the file of *part*. */
export function fileCard(host: HTMLElement, part: SentFile, scene: Scene): void {
  adopt(host, css);
  files.fileCard(host, part, scene, wordsOf(scene.strings));
}
