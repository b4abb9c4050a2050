// Package journal owns the journal: every change of the key space of etcd, kept in a
// directory or a bucket, so that a server can be restored as it was at any revision.
//
// A destination has chains. A chain begins with a base, a backup of package
// backup, and continues with segments that hold all later changes in order:
//
//	chains/00000001/chain.json   who writes the chain, and why it begins
//	chains/00000001/bases/       REVISION-SEQUENCE-TIME.tar.gz[.age]
//	chains/00000001/segments/    SEQUENCE-FIRST-LAST-TIME-TIME.segment
//	chains/00000001/ends/        COUNT-SEQUENCE.json, how far the chain goes
//
// Objects are created once and never changed; the newest end counts. A server claims a
// chain by creating its chain.json; the owner of the chain with the highest number is the
// only writer of the destination. A chain ends when its continuity ends: the history
// was compacted before it was recorded, the spool was full, another server has
// taken over. The next chain states the reason.
//
// A segment names its chain, its number, the revisions before and in it, and the
// SHA-256 sum of the segment before it. Values are recorded as they are stored:
// what is encrypted in etcd needs the keys, which are in the base, and in the
// first segment after they have changed. Base and segments are encrypted with age
// when the configuration names recipients.
//
// The [Writer] reads changes from a watch on the whole key space. It writes
// segments to a spool below the data directory, and ships them from there. Once a day it
// reads what it has shipped, and ends the chain if that is damaged. [Restore] makes a
// state of it, or a backup, the content of a data directory; a [Reader] reads its past.
package journal
