package s3

import (
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal/s3"
)

func init() {
	journal.OpenBucket = func(l journal.Location, readers int) (journal.Store, error) {
		return s3.New(s3.Location(l), readers)
	}
}
