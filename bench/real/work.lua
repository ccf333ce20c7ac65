-- SPDX-License-Identifier: MIT
-- Fixed work of `sheaf bench real`: tables, strings, closures.
local x, total = 1, 0
local function random(n)
	x = (x * 1103515245 + 12345) % 2147483648
	return x % n
end
for turn = 1, 6 do
	local words, index = {}, {}
	for i = 1, 60000 do
		local word = "w" .. random(9000)
		words[i] = {word = word, at = i, next = words[i - 1]}
		index[word] = index[word] or {}
		table.insert(index[word], function() return i end)
	end
	for _, found in pairs(index) do
		for _, at in ipairs(found) do total = total + at() end
	end
	local parts = {}
	for i = 1, #words, 3 do parts[#parts + 1] = words[i].word:upper():gsub("1", "one") end
	total = total + #table.concat(parts, " ")
end
print(total)
