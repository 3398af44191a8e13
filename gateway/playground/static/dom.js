// Elements of the page. What they say goes in as text, never as HTML.

export const byId = (id) => document.getElementById(id);

/** A new element; `properties` are set on it, and those with a hyphen as attributes. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

export function show(shown, whether = true) {
  shown.hidden = !whether;
}
