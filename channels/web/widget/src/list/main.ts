/** The chunk of conversations: the list of them, and what is done with whole ones. */

export { talks } from "./talks.js";
