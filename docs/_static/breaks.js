/* Long names in tables break after an underscore, a dot or a parenthesis rather than anywhere. */
for (const part of document.querySelectorAll(".bd-article :is(td, th) code .pre"))
  part.innerHTML = part.innerHTML.replace(/(\w[_.(,=])(?=\w{3})/g, "$1<wbr>");
