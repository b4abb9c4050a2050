package etcd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Upstream fact: etcd ends the process with fatal and panic lines of its log
//
// Mirrors: go.etcd.io/etcd/server/v3/embed.StartEtcd
//   go.etcd.io/etcd/server/v3/storage/backend.batchTx.commit
//   go.etcd.io/etcd/server/v3/etcdserver.raftNode.start
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.run
//   go.uber.org/zap/zapcore.CheckedEntry.Write
//   go.uber.org/zap.terminalHookOverride
// Why: etcd that cannot read its data, or cannot write any more, panics or exits
//   on a goroutine of its own, and the API servers in the same process could not
//   stop in order.
// Gain: the process stops in order, and its error is that of etcd.
// Breaks: the process ends at once, or waits for a member that has failed.
//   TestFatalErrorEndsTheMemberOnly fails.

// Failure takes fatal and panic lines of etcd's log. The goroutine that wrote the
// line stops where it is: its deferred functions would close channels that other
// goroutines of etcd still send to, which panics. Its locks stay held, so that a
// member that has failed must not be stopped; the process ends with it. It
// is safe for concurrent use.
type Failure struct {
	once   sync.Once
	failed chan struct{}
	err    error // valid once failed is closed
}

// NewFailure returns a Failure that has not happened.
func NewFailure() *Failure { return &Failure{failed: make(chan struct{})} }

// Logger returns the logger with its fatal and panic lines taken.
func (f *Failure) Logger(logger *zap.Logger) *zap.Logger {
	return logger.WithOptions(zap.WithFatalHook(f), zap.WithPanicHook(f))
}

// Failed is closed after the first fatal or panic line.
func (f *Failure) Failed() <-chan struct{} { return f.failed }

// Err is the first fatal or panic line with its fields, or nil before it.
func (f *Failure) Err() error {
	select {
	case <-f.failed:
		return f.err
	default:
		return nil
	}
}

// OnWrite implements [zapcore.CheckWriteHook].
func (f *Failure) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.once.Do(func() {
		f.err = errors.New(describe(entry.Message, fields))
		close(f.failed)
	})
	select {}
}

// describe is the message with its fields, the error first.
func describe(message string, fields []zapcore.Field) string {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	var parts []string
	for name, value := range encoder.Fields {
		if name == "error" {
			message += ": " + fmt.Sprint(value)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	if len(parts) == 0 {
		return message
	}
	sort.Strings(parts)
	return message + " (" + strings.Join(parts, ", ") + ")"
}

// openGrace is the time that a start which is cancelled leaves etcd to open the data. Data of
// a usual size is open by then, and is closed in order.
const openGrace = 3 * time.Second

// outcome is what embed.StartEtcd returns.
type outcome struct {
	etcd *embed.Etcd
	err  error
}

// Start is embed.StartEtcd with an error where etcd panics or fails for good. The
// configuration's logger must be one of [Failure.Logger].
//
// embed.StartEtcd cannot be cancelled, and reads each key of the database. When ctx has ended
// openGrace ago, Start returns its cause, and a goroutine closes etcd as soon as it has opened
// the data. With each error, closed is called once, possibly after the return: etcd no longer
// uses the data then, or has failed. Without an error, it is not called.
func (f *Failure) Start(ctx context.Context, config *embed.Config, closed func()) (*embed.Etcd, error) {
	outcomes := make(chan outcome, 1)
	go func() { outcomes <- open(config) }()
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(openGrace, func() { close(expired) }) })
	defer stop()
	select {
	case o := <-outcomes:
		if o.err != nil {
			closed()
		}
		return o.etcd, o.err
	case <-f.failed:
		closed()
		return nil, f.err
	case <-expired:
		go f.discard(outcomes, closed)
		return nil, context.Cause(ctx)
	}
}

// open calls embed.StartEtcd.
func open(config *embed.Config) (o outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			config.GetLogger().Debug("etcd panicked", zap.ByteString("stack", debug.Stack()))
			o = outcome{err: fmt.Errorf("the data cannot be read (%v)", cause)}
		}
	}()
	started, err := embed.StartEtcd(config)
	return outcome{started, err}
}

// discard closes what embed.StartEtcd returns.
func (f *Failure) discard(outcomes <-chan outcome, closed func()) {
	defer closed()
	select {
	case o := <-outcomes:
		if o.err == nil {
			o.etcd.Close()
		}
	case <-f.failed:
	}
}
