package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const (
	// A single member needs no clock: nobody else can lead, and elect does not
	// wait for the first timeout to end. So raft may tick slowly, which spares an
	// idle process wake-ups; the timeout is left for an election that elect could
	// not bring about.
	tickMillis     = 500
	electionMillis = 2500
	// A member that listens has clients that etcd's own times are for: the
	// shortest lease, and how long a stop waits for streams, are multiples.
	listeningTickMillis     = 100
	listeningElectionMillis = 500

	// electionPoll is how often the state of raft is looked at, which tells
	// nobody by itself.
	electionPoll = time.Millisecond
)

// electing is held from the start of a member to the end of its election:
// etcd publishes the state of the member that was started last.
var electing sync.Mutex

// raftStatus is what etcd publishes of raft (Status.MarshalJSON of
// go.etcd.io/raft/v3).
type raftStatus struct {
	Term, Commit, Applied uint64
	Lead                  string
}

func readRaftStatus() (raftStatus, error) {
	var status raftStatus
	published := expvar.Get("raft.status")
	if published == nil {
		return status, errors.New("read the state of raft: etcd does not publish it as \"raft.status\"")
	}
	if err := json.Unmarshal([]byte(published.String()), &status); err != nil {
		return status, fmt.Errorf("read the state of raft: %w", err)
	}
	return status, nil
}

// elect tells the only member to campaign, and returns when it leads or has
// stopped. A message to campaign is what a leader that hands over sends
// (MsgTimeoutNow). Raft must have taken in all that was committed before: to
// campaign it looks for changes of the membership in what it has not, and
// panics when that was compacted meanwhile. Without a leader nothing more is
// committed, so that what was seen holds until the message arrives.
func elect(server *etcdserver.EtcdServer, gaveUp <-chan struct{}, logger *zap.Logger) {
	id := uint64(server.MemberID())
	poll := time.NewTicker(electionPoll)
	defer poll.Stop()
	for {
		status, err := readRaftStatus()
		if err != nil {
			logger.Warn("the election waits for its timeout", zap.Error(err))
			return
		}
		if status.Lead != "0" && status.Lead != "" {
			return
		}
		if status.Commit > 0 && status.Applied == status.Commit {
			err := server.Process(context.Background(), raftpb.Message{Type: raftpb.MsgTimeoutNow, From: id, To: id, Term: status.Term})
			if err != nil {
				logger.Debug("the member was not told to campaign", zap.Error(err)) // it stops
			}
		}
		select {
		case <-poll.C:
		case <-server.ReadyNotify():
			return
		case <-server.StopNotify():
			return
		case <-gaveUp:
			return
		}
	}
}
