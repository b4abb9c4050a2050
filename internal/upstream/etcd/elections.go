package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Upstream fact: the keys of an election
//
// Mirrors: go.etcd.io/etcd/client/v3/concurrency.NewElection
//   go.etcd.io/etcd/client/v3/concurrency.Election.Campaign
//   go.etcd.io/etcd/client/v3/concurrency.Election.Leader
// Why: the library tells the elected candidate to those that have a session only, and the
//   number of candidates to none.
// Gain: `status` shows which server writes the archive, and a server that cannot write it
//   leaves it to another one if there is one.
// Breaks: no server is shown, or the archive ends. TestNestedPrefixes and
//   TestContestedElection fail.

// candidates is the beginning of the keys of the candidates of an election.
func candidates(election string) string { return election + "/" }

// ElectedCandidate returns the value of the elected candidate of the election with the
// prefix; nil if there is none.
func ElectedCandidate(ctx context.Context, kv clientv3.KV, election string) ([]byte, error) {
	response, err := kv.Get(ctx, candidates(election), clientv3.WithFirstCreate()...)
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return response.Kvs[0].Value, nil
}

// CountCandidates returns the number of candidates of the election with the prefix, the
// elected one included.
func CountCandidates(ctx context.Context, kv clientv3.KV, election string) (int64, error) {
	response, err := kv.Get(ctx, candidates(election), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return response.Count, nil
}
