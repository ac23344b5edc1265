/** The words of blocks of code; a page replaces any of them by `strings.code`. */

export const CODE = {
  wrap: "Wrap lines",
};

export type CodeWords = typeof CODE;
