// Command bench measures kube-hyper-mini beside what one would otherwise run:
// etcd, kube-apiserver and kube-controller-manager of the same versions.
//
// It builds both sides from the module cache with the same linker flags, runs
// them in turn on this machine, each time with a new data directory on the
// same file system and with the same fsync setting, and prints one table:
// figure, ours, theirs, ratio (ours / theirs), target, spread. Values are
// medians of -runs runs; the spread is (largest - smallest) / median of each
// side. The samples behind them are in the JSON file. A benchmark is no test:
// a target that is missed is printed with its reason, and the exit code stays 0.
//
// # What the other side is given
//
// Everything is at its default unless it has to be named for the three
// programs to find each other, with these exceptions:
//
//   - kube-controller-manager runs the controllers that kube-hyper-mini runs
//     by default and no others (--controllers), so that neither side pays for
//     workloads, and with --use-service-account-credentials, without which its
//     RBAC role does not let them work. Leader election and the client's rate limit of 20 requests
//     per second are its defaults and stay.
//   - kube-apiserver authorizes with RBAC, verifies client certificates and
//     service account tokens, and has a front proxy's certificates, as
//     kube-hyper-mini does.
//   - Certificates, keys and kubeconfigs are made before the clock starts;
//     kube-hyper-mini makes its own after.
//   - etcd is reached over loopback without TLS.
//
// The programs of both sides are taken out of the page cache once they are
// built, and read again as they run: that is how a machine has them that was
// booted since, and it decides how much of them counts as resident. The first
// run reads the disk. Before each run, what the run before has written is brought
// to the disk.
//
// All four programs listen on loopback, log into a file, and are driven by the
// same client: JSON over HTTP/2 and TLS, one connection for each simulated
// client, as a member of system:masters. Answers are not decoded, because the
// client has to share the machine with the server.
//
// kube-apiserver starts as soon as etcd says that it is healthy,
// kube-controller-manager as soon as kube-apiserver says that it is ready.
// The start of the other side is measured from etcd's start; to stop it,
// kube-apiserver and kube-controller-manager are asked at the same time, and
// etcd when both have ended.
//
// Throughput is that of a server that has come to rest after its start.
//
// Processor time is what the kernel accounts to the processes of a side, in steps of 10 ms.
// The live heap is the metric go_gc_heap_live_bytes after a collection, which a request for
// a heap profile causes; etcd has neither, so that it is measured on our side only.
//
// # Thousands of CRDs
//
// The figure crds creates the CRDs of an archive (-crd-archive) once, and again
// on another server four times over, under other groups, kinds and plurals, so
// that each copy is a valid CRD of its own; -crds-times takes another number.
// Each value is printed with its goal as it is measured. A step that fails, or takes
// longer than -crd-limit, has no value, and the reason is printed below the table; without
// all CRDs, or after a process has ended, the next steps have none either. -crd-steps runs
// some steps only. The archive is unpacked with the xz program, which the machine must have.
//
// A set takes about ten minutes on each side, most of which are rests of a minute: memory
// is measured after them. What a type in use takes beyond its objects is the difference of
// two growths, in the anonymous memory of one server. First, a type that is in use gets
// another 3,000 objects; then 30 types that were not used get 100 objects of the same size
// and a client that lists and watches each. The difference, divided by 30, is the figure.
// Before the first measurement that type has 100 objects and such a client. -runs repeats
// it on other servers.
//
// # The journal
//
// The figure journal compares two servers that run side by side, one with a journal in a
// directory on the same disk. They are loaded in turn, in pairs, and the ratio of a run has
// an interval of confidence. Processor time per write hardly depends on what else the
// machine does. The figure journal-restore, which is measured when it is named, writes
// 100,000 objects, removes the data directory and restores it.
//
// # The other side for tests
//
// With -serve nothing is measured: the other side runs until interrupted, with all
// controllers of kube-controller-manager, and the path of its kubeconfig is printed when it
// is ready. The conformance specs run against it.
//
// Run a benchmark on a machine that has nothing else to do.
package main
