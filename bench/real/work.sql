-- SPDX-License-Identifier: MIT
-- Fixed work of `sheaf bench real`: inserts, indexes, joins, updates, deletes.
create table person(id integer primary key, name text, town integer, born integer);
create table visit(person integer, town integer, note text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into person select i, 'person ' || (i * 7919 % 60013), i * 31 % 997, 1900 + i * 17 % 120 from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
insert into visit select i * 13 % 60000, i * 29 % 997, printf('%.*c', i % 90, 'x') from n;
create index by_town on person(town, born);
create index by_person on visit(person);
select count(*), sum(length(note)) from visit join person on person.id = visit.person where person.born < 1960;
select town, count(*), group_concat(name, ';') like '%9%' from person group by town having count(*) > 61;
update visit set note = note || upper(note) where town % 3 = 0;
delete from person where id % 5 = 0;
insert into person select null, name || ' again', town, born from person where id % 4 = 0;
select count(distinct name), max(length(note)) from person left join visit on visit.person = person.id;
