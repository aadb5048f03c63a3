// The text of a page that is hardest to read: its contrast with what is painted behind it, as WCAG 2 defines it.
() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const seen = new Map();
  const rgba = (color) => {
    if (!seen.has(color)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
      seen.set(color, [red, green, blue, alpha / 255]);
    }
    return seen.get(color);
  };
  const over = ([r, g, b, alpha], behind) => [r, g, b].map((value, i) => alpha * value + (1 - alpha) * behind[i]);
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.backgroundColor = "Canvas";
  const canvas = rgba(getComputedStyle(probe).backgroundColor);
  probe.remove();
  const behind = (element) => {
    if (!element) return canvas.slice(0, 3);
    const color = rgba(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color.slice(0, 3) : over(color, behind(element.parentElement));
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (element, pseudo) => {
    const back = behind(element);
    const [one, other] = [luminance(over(rgba(getComputedStyle(element, pseudo).color), back)), luminance(back)];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  };
  let least = { contrast: Infinity, text: "", count: 0 };
  const look = (element, text, pseudo) => {
    const count = least.count + 1;
    const found = contrast(element, pseudo);
    if (found < least.contrast) least = { contrast: found, text };
    least.count = count;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (text && element.checkVisibility({ visibilityProperty: true })) look(element, text, null);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const drawn = getComputedStyle(element, "::after").content;
    if (!["none", "normal", '""'].includes(drawn) && element.checkVisibility()) look(element, drawn, "::after");
  }
  return least;
}
