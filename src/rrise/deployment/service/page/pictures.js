/* Pictures: the values of an image, and copies of it at an exact L2 distance. Values lie in [0, 1]. */

/** Read an image file as values `[channels * height * width]`, in the order that the service uses. */
export async function valuesOf(blob, [channels, height, width]) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const plane = height * width, values = new Float64Array(channels * plane);
  for (let channel = 0; channel < channels; channel++)
    for (let place = 0; place < plane; place++) values[channel * plane + place] = data[4 * place + channel] / 255;
  return values;
}

/** Draw values on a canvas, with 256 levels. */
export function draw(canvas, values, [channels, height, width]) {
  canvas.width = width;
  canvas.height = height;
  const plane = height * width, image = new ImageData(width, height);
  for (let place = 0; place < plane; place++) {
    for (let colour = 0; colour < 3; colour++)
      image.data[4 * place + colour] = Math.round(255 * values[(channels === 3 ? colour : 0) * plane + place]);
    image.data[4 * place + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

export const distance = (a, b) => Math.sqrt(a.reduce((sum, value, index) => sum + (value - b[index]) ** 2, 0));

const clip = (value) => Math.min(1, Math.max(0, value));

/** Move values along a direction, clipped to [0, 1], until they are `radius` away or `furthest` steps are done. */
export function moved(values, direction, radius, furthest = Infinity) {
  const length = Math.sqrt(direction.reduce((sum, value) => sum + value ** 2, 0)) || 1;
  const at = (step) => values.map((value, index) => clip(value + (step * direction[index]) / length));
  const away = (step) => distance(at(step), values);
  const last = furthest * length;
  let high = Math.min(radius, last);
  while (away(high) < radius && high < last && away(2 * high) > away(high)) high = Math.min(2 * high, last);
  for (let round = 0, low = 0; round < 60 && away(high) >= radius; round++) {
    const middle = (low + high) / 2;
    if (away(middle) < radius) low = middle; else high = middle;
    if (high - low < 1e-12) break;
  }
  const copy = at(high);
  const held = copy.filter((value, index) => Math.abs(values[index] + (high * direction[index]) / length - value) > 1e-9);
  return { values: copy, distance: distance(copy, values), held: held.length };
}

/** Change a few values as far as they go, from the middle of the image outwards, until `radius` away. */
export function patched(values, [channels, height, width], radius) {
  const copy = values.slice(), plane = height * width;
  const order = [...Array(plane).keys()].sort((a, b) => fromMiddle(a) - fromMiddle(b));
  function fromMiddle(place) {
    return Math.max(Math.abs(Math.floor(place / width) - (height - 1) / 2), Math.abs((place % width) - (width - 1) / 2));
  }
  let left = radius ** 2, changed = 0;
  for (const place of order) {
    if (left < 1e-12) break;
    changed++;
    for (let channel = 0; channel < channels && left >= 1e-12; channel++) {
      const index = channel * plane + place, up = values[index] < 0.5;
      const step = Math.min(Math.sqrt(left), up ? 1 - values[index] : values[index]);
      copy[index] += up ? step : -step;
      left -= step ** 2;
    }
  }
  return { values: copy, distance: distance(copy, values), held: 0, changed };
}

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

/** Return copies of an image at the given distance, each with a name and what is to say about it. */
export function copiesOf(values, shape, radius) {
  const along = (name, direction, furthest) => ({ name, ...moved(values, direction, radius, furthest) });
  const patch = patched(values, shape, radius);
  return [
    along("random noise", values.map(normal)),
    along("brighter", values.map(() => 1)),
    along("darker", values.map(() => -1)),
    along("faded to grey", values.map((value) => 0.5 - value), 1),
    { name: `${patch.changed} ${patch.changed === 1 ? "pixel" : "pixels"} in the middle`, ...patch },
  ];
}
