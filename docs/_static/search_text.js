/* Formulas in the excerpts of the search are shown without the delimiters, braces and backslashes of TeX. */
if (typeof Search !== "undefined") {
  const textOf = Search.htmlToText;
  const plain = (formula) =>
    formula.replace(/\\[,;!:|]|\\frac/g, "").replace(/\}\{/g, "/").replace(/[{}]/g, "").replace(/\\([a-zA-Z]+)/g, "$1");
  Search.htmlToText = (html, anchor) =>
    textOf(html, anchor).replace(/\\[(\[](.+?)\\[)\]]/gs, (_, formula) => plain(formula));
}
