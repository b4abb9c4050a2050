// Package maintenance keeps the embedded etcd's database within its quota and
// its disk. It warns before the quota is reached. When the quota is reached, or
// the disk is nearly full, the server reads and deletes and refuses other
// writes, with an error that says what to do; history and free pages are given
// up, and writes are taken again as soon as that, or what was deleted, or room
// on the disk, has helped. Between times it defragments.
package maintenance
