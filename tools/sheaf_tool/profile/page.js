// SPDX-License-Identifier: MIT
// The flame graph and the table of a profile. Text from the profile becomes text only, never HTML.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const ROW = 22, ROWS = 100, COLUMNS = 6, REST = 0, LEAST = 2, READABLE = 28;
const n = data.parent.length;
const children = Array.from({ length: n }, () => []);
for (let i = 1; i < n; i++)
	children[data.parent[i]].push(i);
const total = new Float64Array(n), width = new Float64Array(n), found = new Uint8Array(n);
let column = data.column, zoom = 0, focused = 0, order = "own", descending = true, rows = ROWS, search = null;

function amount(value) {
	const sign = value < 0 ? "−" : data.signed && value > 0 ? "+" : "";
	value = Math.abs(value);
	if (column % 2 === 0)
		return sign + Math.round(value).toLocaleString("en");
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;
	for (; value >= 1000 && unit < units.length - 1; unit++)
		value /= 1024;
	return `${sign}${unit && value < 99.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const percent = (value, of) => of ? `${(100 * value / of).toFixed(1)} %` : "–";
const time = ms => ms === null ? "–" : ms < 10000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
const name = i => data.names[data.name[i]];

// The width of a frame counts what grew and what shrank; its total is the difference.
function sum() {
	for (let i = n - 1; i >= 0; i--) {
		const own = data.own[i * COLUMNS + column];
		total[i] += own;
		width[i] += Math.abs(own);
		if (i) {
			total[data.parent[i]] += total[i];
			width[data.parent[i]] += width[i];
		}
	}
	for (const list of children)
		list.sort((a, b) => width[b] - width[a]);
}

function recount() {
	total.fill(0);
	width.fill(0);
	sum();
	if (!width[zoom])
		zoom = 0;
}

function say(i) {
	const own = data.own[i * COLUMNS + column];
	const bold = document.createElement("b");
	bold.textContent = name(i);
	const share = data.signed ? "" : ` (${percent(total[i], total[0])})`;
	at("said").replaceChildren(bold, ` ${amount(total[i])}${share}, itself ${amount(own)}`);
}

function saySearch() {
	let sum = 0;
	for (let i = n - 1; i >= 0; i--)  // the outermost of those that match
		if (found[i] && !above(i))
			sum += total[i];
	at("said").textContent = search ? `${data.signed ? amount(sum) : percent(sum, total[0])} is in functions that match` :
		"Click a frame, or press Enter on it, to see it larger. Arrow keys move, Escape goes back, / searches.";
}

function above(i) {
	for (i = data.parent[i]; i > 0; i = data.parent[i])
		if (found[i])
			return true;
	return false;
}

function hue(i) {
	if (data.signed)
		return total[i] >= 0 ? 8 : 212;
	let hash = 7;
	for (const letter of name(i))
		hash = (hash * 31 + letter.codePointAt(0)) % 9973;
	return 18 + hash % 120;
}

function frame(i, left, share, depth, above) {
	const box = document.createElement("div");
	box.className = `frame${above ? " above" : ""}${found[i] ? " found" : ""}${data.name[i] === REST || !i ? " rest" : ""}`;
	box.style.cssText = `left:${100 * left}%;width:calc(${100 * share}% - 1px);top:${depth * ROW}px;--h:${hue(i)}`;
	box.textContent = share * at("rows").clientWidth < READABLE ? "" : name(i);
	box.dataset.frame = i;
	box.tabIndex = i === focused ? 0 : -1;
	box.setAttribute("role", "treeitem");
	box.setAttribute("aria-level", depth + 1);
	box.setAttribute("aria-label", `${name(i)} ${amount(total[i])}`);
	return box;
}

function draw() {
	const path = [], boxes = [];
	for (let i = zoom; ; i = data.parent[i]) {
		path.unshift(i);
		if (!i)
			break;
	}
	path.forEach((i, depth) => boxes.push(frame(i, 0, 1, depth, i !== zoom)));
	const least = LEAST / Math.max(at("rows").clientWidth, 1);
	let deepest = path.length;
	const rest = [[zoom, 0, path.length]];
	while (rest.length && width[zoom]) {
		const [parent, begin, depth] = rest.pop();
		let left = begin;
		for (const i of children[parent]) {
			const share = width[i] / width[zoom];
			if (share < least)
				break;  // the largest come first
			boxes.push(frame(i, left, share, depth, false));
			deepest = Math.max(deepest, depth + 1);
			rest.push([i, left, depth + 1]);
			left += share;
		}
	}
	at("rows").style.height = `${deepest * ROW}px`;
	at("rows").classList.toggle("searched", search !== null);
	at("rows").replaceChildren(...boxes);
	at("out").hidden = !zoom;
}

function zoomTo(i) {
	zoom = focused = i;
	draw();
	focusOn(i);
}

function focusOn(i) {
	const box = at("rows").querySelector(`[data-frame="${i}"]`);
	if (!box)
		return;
	const before = at("rows").querySelector('[tabindex="0"]');
	if (before)
		before.tabIndex = -1;
	focused = i;
	box.tabIndex = 0;
	box.focus();
	say(i);
}

function beside(i, step) {
	const list = i ? children[data.parent[i]] : [0];
	return list[list.indexOf(i) + step] ?? i;
}

function key(event) {
	const i = Number(event.target.dataset.frame);
	const to = { ArrowUp: () => focusOn(data.parent[i] ?? 0), ArrowDown: () => children[i].length && focusOn(children[i][0]),
		ArrowLeft: () => focusOn(beside(i, -1)), ArrowRight: () => focusOn(beside(i, 1)), Home: () => focusOn(zoom),
		Enter: () => zoomTo(i), " ": () => zoomTo(i), Escape: () => zoom && zoomTo(data.parent[zoom]) }[event.key];
	if (to && event.target.dataset.frame) {
		event.preventDefault();
		to();
	}
}

// The table.

const value = { name: one => data.names[one.name], own: one => one.own[column], total: one => one.total[column],
	elsewhere: one => one.elsewhere, lifetime: one => one.lifetime };

const size = value => data.signed ? Math.abs(value) : value;

function compare(a, b) {
	const [x, y] = [value[order](a), value[order](b)];
	if (x === null || y === null)
		return (x === null) - (y === null);  // what is unknown comes last
	const sign = descending ? -1 : 1;
	if (order === "name")
		return sign * x.localeCompare(y);
	if (order === "elsewhere" || order === "lifetime")
		return sign * (x - y);
	return sign * (size(x) - size(y)) || size(b.total[column]) - size(a.total[column]);
}

function cells(one) {
	const row = document.createElement("tr"), link = document.createElement("button");
	link.type = "button";
	link.textContent = data.names[one.name];
	link.onclick = () => { at("search").value = data.names[one.name]; searchFor(); at("graph").scrollIntoView(); };
	for (const text of [link, amount(one.own[column]), amount(one.total[column]),
		one.elsewhere === null ? "–" : percent(one.elsewhere, 1), time(one.lifetime)]) {
		const cell = document.createElement("td");
		cell.append(text);
		row.append(cell);
	}
	return row;
}

function list() {
	const chosen = data.functions.filter(one => !search || search(data.names[one.name])).sort(compare);
	at("body").replaceChildren(...chosen.slice(0, rows).map(cells));
	at("more").hidden = chosen.length <= rows;
	at("more").textContent = `show ${Math.min(ROWS, chosen.length - rows)} more of ${chosen.length}`;
	for (const head of document.querySelectorAll("th[data-order]"))
		head.setAttribute("aria-sort", head.dataset.order !== order ? "none" : descending ? "descending" : "ascending");
}

function searchFor() {
	const words = at("search").value.toLowerCase();
	search = words ? text => text.toLowerCase().includes(words) : null;
	for (let i = 0; i < n; i++)
		found[i] = search !== null && i > 0 && search(name(i));
	rows = ROWS;
	draw();
	list();
	saySearch();
}

function choose() {
	const chosen = new FormData(at("choice"));
	column = Number(chosen.get("value")) * 2 + Number(chosen.get("unit"));
	recount();
	draw();
	list();
	saySearch();
}

at("choice").addEventListener("change", event => event.target.type === "radio" && choose());
at("choice").addEventListener("submit", event => event.preventDefault());
at("search").addEventListener("input", searchFor);
at("out").addEventListener("click", () => zoomTo(0));
at("rows").addEventListener("click", event => event.target.dataset.frame && zoomTo(Number(event.target.dataset.frame)));
at("rows").addEventListener("pointerover", event => event.target.dataset.frame && say(Number(event.target.dataset.frame)));
at("rows").addEventListener("keydown", key);
at("more").addEventListener("click", () => { rows += ROWS; list(); });
for (const head of document.querySelectorAll("th[data-order] button"))
	head.addEventListener("click", () => {
		const by = head.parentElement.dataset.order;
		descending = by === order ? !descending : by !== "name";
		order = by;
		list();
	});
document.addEventListener("keydown", event => {
	if (event.key === "/" && event.target !== at("search")) {
		event.preventDefault();
		at("search").focus();
	}
});
let drawn = 0;
new ResizeObserver(() => {
	if (at("rows").clientWidth !== drawn) {
		drawn = at("rows").clientWidth;
		draw();
	}
}).observe(at("graph"));
choose();
