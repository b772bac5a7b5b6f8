// One click on an example puts it into the fields.
element.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-source]");
  if (button) trigger("pick", { source: button.dataset.source, expected: button.dataset.target });
});
