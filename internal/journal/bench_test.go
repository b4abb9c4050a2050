package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// object is of the size of a small Kubernetes object, and compresses as one.
func object(i int) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"object-%d","uid":"%x"},"data":{"a":"%s"}}`, i, i*7919, strings.Repeat(fmt.Sprint(i), 100))
}

// fill puts so many objects, 100 in a transaction.
func (f *fixture) fill(objects int) {
	for i := 0; i < objects; i += 100 {
		var puts []clientv3.Op
		for j := i; j < i+100; j++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/configmaps/default/object-%d", j), object(j)))
		}
		if _, err := f.member.Client().Txn(f.t.Context()).Then(puts...).Commit(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// BenchmarkRestore restores 100,000 objects: from segments, and from a base.
func BenchmarkRestore(b *testing.B) {
	const objects = 100_000
	store := NewDirectory(b.TempDir())
	f := start(b, store, b.TempDir(), func(c *Config) { c.Interval = time.Second })
	f.caughtUp()
	f.fill(objects)
	f.caughtUp()
	for _, from := range []string{"segments", "base"} {
		if from == "base" {
			f.makeBase()
		}
		b.Run(from, func(b *testing.B) {
			for b.Loop() {
				if got, _, err := restore(b, store, Target{}); err != nil || len(got) != objects {
					b.Fatalf("%d objects, %v", len(got), err)
				}
			}
		})
	}
}
