// Package crds serves custom resources so that a CRD that nobody uses costs
// only its metadata. It assembles the apiextensions server from upstream's
// exported parts, in place of completedConfig.New of
// k8s.io/apiextensions-apiserver/pkg/apiserver.
//
// The parts, from the store to the client:
//
//   - definitions reads CRDs from etcd, whole or without schemas (light). They
//     are stored as protobuf without a watch cache, so that schemas are skipped;
//   - bare answers lists and watches that have metadata only, without schemas:
//     those of kubectl get and of the garbage collector;
//   - whole answers other lists and watches of CRDs. It reads a page of stored CRDs
//     at a time, decodes and encodes them one by one, and shares the encoded ones
//     (encodings) between clients that read at the same time;
//   - the informer holds light CRDs and feeds upstream's controllers;
//   - catalog is what this server serves: the informer's content, and at once
//     what this server itself has written;
//   - registry is the REST storage of CRDs; with one server it accepts names
//     and establishes a CRD in the write that creates it;
//   - empty answers plain lists and watches of types without objects, for which
//     nothing is built; waiting keeps such watches until the first object comes,
//     and hands them to upstream's handler from the revision before it;
//   - front hands requests to upstream's handler, which builds the serving
//     machinery of a type at its first request, and lets idle types go;
//   - stores opens the storage of custom resources for the handler, and has the
//     first reads of a type wait for its watch cache;
//   - groups answers discovery.
package crds
