// Package s3 gives a program the client of journals in buckets (journal.destination:
// s3://BUCKET/PREFIX), which programs without it do not have:
//
//	import _ "kube-hyper-mini.io/kube-hyper-mini/controlplane/s3"
package s3

import _ "kube-hyper-mini.io/kube-hyper-mini/internal/journal/s3"
