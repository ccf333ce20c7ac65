// SPDX-License-Identifier: MIT
// Fixed work of `sheaf bench real`: objects, and buffers outside V8's heap.
let x = 1, total = 0;
const random = (n) => (x = (x * 48271) % 2147483647) % n;
for (let turn = 0; turn < 20; turn++) {
	const found = new Map();
	for (let i = 0; i < 20000; i++) {
		const key = `k${random(4000)}`;
		found.set(key, [...(found.get(key) || []).slice(-8), Buffer.alloc(20 + random(300), i & 255)]);
	}
	total += JSON.stringify([...found.keys()]).length;
	for (const list of found.values()) total += Buffer.concat(list).length;
}
console.log(total);
