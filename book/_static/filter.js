// A field above a long list of tables: it leaves the rows that have all the words typed.
for (const place of document.querySelectorAll(".mxlab-filter")) {
  const article = place.closest("article");
  const rows = [...article.querySelectorAll("tbody tr")]
    .map((row) => [row, row.textContent.toLowerCase()]);
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Filter: words, a class, a GPU";
  field.setAttribute("aria-label", `Filter the ${place.dataset.what}`);
  const count = document.createElement("span");
  count.role = "status";
  place.append(field, count);

  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const [row, text] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      left += !row.hidden;
    }
    for (const table of article.querySelectorAll("table")) {
      const none = !table.querySelector("tbody tr:not([hidden])");
      table.closest("section").hidden = none;
    }
    count.textContent = `${left} of ${rows.length} ${place.dataset.what}`;
  };
  field.addEventListener("input", show);
  show();
}
