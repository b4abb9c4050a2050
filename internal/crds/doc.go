// Package crds serves custom resources so that the cost of a CRD that is not in use is
// its metadata. It assembles the apiextensions server from upstream's exported parts,
// in place of completedConfig.New of k8s.io/apiextensions-apiserver/pkg/apiserver.
//
// The parts, from the store to the client:
//
//   - definitions reads CRDs from etcd, whole or without schemas (light). They are
//     stored as protobuf without a watch cache, so that schemas can be skipped;
//   - metadata answers lists and watches of CRDs whose response has no schemas: those
//     of kubectl get and of the garbage collector;
//   - whole answers other lists and watches of CRDs. It reads a page of stored CRDs
//     at a time, decodes and encodes them one by one, and shares the encoded ones
//     (encodings) between clients that read at the same time;
//   - the informer holds light CRDs and is the source of upstream's controllers;
//   - catalog is what this server serves: the informer's content and this server's
//     own writes;
//   - registry is the REST storage of CRDs; with one server it accepts names and
//     establishes a CRD in the write that creates it;
//   - emptyTypes answers plain lists and watches of types without objects, for which
//     nothing is built. Such a watch continues in upstream's handler when the first
//     object comes, from the revision before it;
//   - front passes requests to upstream's handler. At the first request of a type it
//     reads the CRD from which the handler builds the serving machinery, and it releases
//     idle types, also when they take more memory than limits.idleTypes;
//   - groups answers discovery.
package crds
