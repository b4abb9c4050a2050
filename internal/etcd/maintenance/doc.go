// Package maintenance keeps the database of the embedded etcd within its quota and
// its disk. It logs a warning before the quota is reached. When the quota is
// reached, or the disk is nearly full, the server serves reads and deletions and
// refuses other writes with an error that names the remedy. The [Keeper] then
// compacts and defragments the database, and accepts writes again as soon as there
// is room. It also defragments a database of which a large part is free.
package maintenance
