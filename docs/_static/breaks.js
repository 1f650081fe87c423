/* Long names in tables break after an underscore, a dot or a comma rather than anywhere. */
for (const part of document.querySelectorAll(".bd-article :is(td, th) code .pre"))
  part.innerHTML = part.innerHTML.replace(/([_.(,=])(?=\w)/g, "$1<wbr>");
