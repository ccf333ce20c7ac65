# SPDX-License-Identifier: MIT
"""Fixed work of `sheaf bench real`: dictionaries, strings, objects, JSON."""
import json
import re


class Node:
    def __init__(self, key, left=None, right=None):
        self.key, self.left, self.right = key, left, right


def insert(node, key):
    if node is None:
        return Node(key)
    if key < node.key:
        return Node(node.key, insert(node.left, key), node.right)
    return Node(node.key, node.left, insert(node.right, key))


total, x = 0, 1
for turn in range(4):
    table, tree = {}, None
    for i in range(20000):
        x = x * 1103515245 + 12345 & 0x7fffffff
        table.setdefault(f"key{x % 5000}", []).append((i, str(x)))
        if i % 5 == 0:
            tree = insert(tree, x)
    text = json.dumps(table)
    total += len(json.loads(text)) + len(re.findall(r"key(\d+)", text)) + len(" ".join(sorted(table)).split())
    total += sum(len(word) for word in text.replace(",", " ").split())
print(total)
