// One click on an example puts it into the fields.
element.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-source]");
  if (button) trigger("pick", { source: button.dataset.source, expected: button.dataset.target });
});

// Gradio's own event for what is typed is not there for what is pasted.
document.addEventListener("input", (event) => {
  if (event.target.closest("#ctree-target")) trigger("aim");
});
