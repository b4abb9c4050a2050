package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// journalPairs is how often creates without and with a journal are compared; see
	// interval.
	journalPairs = 20
	// journalCreates is how many objects each half of a pair creates.
	journalCreates = 1000
	// journaledWithin is how long the last changes take to be journaled. Requests for the
	// status would take processor time.
	journaledWithin = 3 * time.Second
	// slowRequest is how long each request to a slow destination takes.
	slowRequest = 2 * time.Second
	// noAnswer is longer than any request waits.
	noAnswer = time.Hour
)

// journalRows are of the journal; the other side has nothing of the kind.
var journalRows = []row{
	{name: "creates by 16 clients, per second, no journal", unit: plain, higher: true},
	{name: "creates by 16 clients, per second, with a journal", unit: plain, higher: true},
	{name: "creates with a journal / without", unit: plain, higher: true, limit: 0.97},
	{name: "creates with a journal / without, 95 % confidence, from", unit: plain, higher: true},
	{name: "creates with a journal / without, 95 % confidence, to", unit: plain, higher: true},
	{name: "creates by 16 clients, p99, no journal", unit: inSeconds},
	{name: "creates by 16 clients, p99, with a journal", unit: inSeconds},
	{name: "processor time of 1,000 creates, no journal", unit: inSeconds},
	{name: "processor time of 1,000 creates, with a journal", unit: inSeconds},
	{name: "processor time with a journal / without", unit: plain, limit: 1.03},
	{name: fmt.Sprintf("highest anonymous memory of %d creates, no journal", journalPairs*journalCreates), unit: inBytes},
	{name: "highest anonymous memory, with a journal", unit: inBytes},
	{name: "highest anonymous memory of one server alone, no journal", unit: inBytes},
	{name: fmt.Sprintf("highest anonymous memory of one server alone, each request to S3 takes %s", slowRequest), unit: inBytes},
	{name: "highest anonymous memory of one server alone, S3 does not answer", unit: inBytes},
	{name: "memory that a journal adds at most", unit: inBytes, limit: 32e6},
}

// measureJournal compares a server with a journal in a directory on the same disk with one
// without a journal. Both run; they are loaded in turn.
func measureJournal(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(journalRows)), nil
	}
	journal, err := b.newDir("journal")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(journal)) }()
	err = b.withJournal(ctx, "", func(plain *creator) error {
		return b.withJournal(ctx, directoryJournal(journal), func(journaled *creator) error {
			values, err = compare(ctx, plain, journaled)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	alone, err := b.peakAlone(ctx, "", func() {})
	if err != nil {
		return nil, err
	}
	values = append(values, alone)
	for _, delay := range []time.Duration{slowRequest, noAnswer} {
		peak, err := b.measureDestination(ctx, delay)
		if err != nil {
			return nil, err
		}
		values = append(values, peak)
	}
	p := values[len(values)-5:] // of both servers that were loaded in turn, then of those alone
	return append(values, max(p[1]-p[0], p[3]-p[2], p[4]-p[2])), nil
}

func directoryJournal(dir string) string { return fmt.Sprintf("journal: {destination: %q}\n", dir) }

// creator creates objects in one server.
type creator struct {
	fixture
	made       int
	rates, p99 []float64
}

// withJournal starts a server with additional fields of the configuration, which has come
// to rest.
func (b *bench) withJournal(ctx context.Context, fields string, use func(*creator) error) error {
	start := func(ctx context.Context, dir string) (*cluster, error) { return b.startOursWith(ctx, dir, fields) }
	return b.withFixture(ctx, side{ours, start}, func(f fixture) error {
		c := &creator{fixture: f}
		if fields != "" {
			if err := f.journaled(ctx); err != nil {
				return err
			}
		}
		if err := f.rest(ctx); err != nil {
			return err
		}
		return use(c)
	})
}

// burst creates objects with 16 clients.
func (c *creator) burst(ctx context.Context) error {
	bodies := make([][]byte, journalCreates)
	for i := range bodies {
		bodies[i] = configMap(objectName(c.made+i), "", nil, payload)
	}
	c.made += journalCreates
	measured, err := drive(ctx, c.fixture, concurrent, journalCreates, func(i int) (string, string, []byte) {
		return http.MethodPost, configMapsPath("default"), bodies[i]
	})
	if err != nil {
		return err
	}
	c.rates, c.p99 = append(c.rates, measured[0]), append(c.p99, measured[2])
	return nil
}

// compare loads both servers in turn and returns all rows up to the memory of both.
func compare(ctx context.Context, plain, journaled *creator) ([]float64, error) {
	both := []*creator{plain, journaled}
	var before []usage
	for _, c := range both {
		if err := c.burst(ctx); err != nil { // connections and caches are made
			return nil, err
		}
		c.rates, c.p99 = nil, nil
	}
	if err := pause(ctx, journaledWithin); err != nil {
		return nil, err
	}
	for _, c := range both {
		used, err := c.usage()
		if err == nil {
			err = c.resetPeaks()
		}
		if err != nil {
			return nil, err
		}
		before = append(before, used)
	}
	for range journalPairs {
		for _, c := range both {
			if err := c.burst(ctx); err != nil {
				return nil, err
			}
		}
		slices.Reverse(both) // the other one is first in the next pair
	}
	if err := pause(ctx, journaledWithin); err != nil {
		return nil, err
	}
	var cpu, peaks []float64
	for i, c := range []*creator{plain, journaled} {
		after, err := c.usage()
		if err != nil {
			return nil, err
		}
		peak, _, err := c.peak()
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, (after.cpu-before[i].cpu)/journalPairs/journalCreates*1000)
		peaks = append(peaks, peak)
	}
	if err := journaled.journaled(ctx); err != nil {
		return nil, err
	}
	var ratios []float64
	for i := range journalPairs {
		ratios = append(ratios, journaled.rates[i]/plain.rates[i])
	}
	mean, from, to := interval(ratios)
	return []float64{
		median(plain.rates), median(journaled.rates), mean, from, to, median(plain.p99), median(journaled.p99),
		cpu[0], cpu[1], cpu[1] / cpu[0], peaks[0], peaks[1],
	}, nil
}

// journaled returns when the journal has everything.
func (f fixture) journaled(ctx context.Context) error {
	return f.await(ctx, "the journal", func(ctx context.Context) error {
		text, err := f.do(ctx, http.MethodGet, "/kube-hyper-mini/status", nil)
		if err != nil {
			return err
		}
		var status struct {
			Journal struct {
				Chain, LagRevisions int64
				LagSeconds          float64
			}
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		if a := status.Journal; a.Chain == 0 || a.LagRevisions > 0 || a.LagSeconds > 0 {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// measureDestination returns the highest memory of a server under the same load whose
// journal is in an S3 that delays each request, from the time when it has a base.
func (b *bench) measureDestination(ctx context.Context, delay time.Duration) (peak float64, err error) {
	dir, err := b.newDir("s3")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	s3, err := b.startS3(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s3.stop()) }()
	return b.peakAlone(ctx, s3.fields, func() { s3.delay.Store(int64(delay)) })
}

// peakAlone returns the highest memory of a server with additional fields of the
// configuration under load, after begin.
func (b *bench) peakAlone(ctx context.Context, fields string, begin func()) (peak float64, err error) {
	err = b.withJournal(ctx, fields, func(c *creator) error {
		begin()
		if err := c.burst(ctx); err != nil {
			return err
		}
		if err := c.resetPeaks(); err != nil {
			return err
		}
		for range journalPairs {
			if err := c.burst(ctx); err != nil {
				return err
			}
		}
		peak, _, err = c.peak()
		return err
	})
	return peak, err
}

// slowS3 is an S3 server whose requests wait.
type slowS3 struct {
	fields string // the configuration of a journal in it
	stop   func() error
	delay  *atomic.Int64
}

// startS3 starts an S3 server whose requests do not wait yet.
func (b *bench) startS3(ctx context.Context, dir string) (*slowS3, error) {
	const key, secret = "administrator", "a secret"
	root, err := repository(ctx)
	if err != nil {
		return nil, err
	}
	program, data := filepath.Join(b.bin, "bench-versitygw"), filepath.Join(dir, "data")
	if err := build(ctx, filepath.Join(root, "e2e", "s3server"), "github.com/versity/versitygw/cmd/versitygw", program, ""); err != nil {
		return nil, err
	}
	for _, path := range []string{filepath.Join(data, "journal"), filepath.Join(dir, "sidecar")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("make a bucket: %w", err)
		}
	}
	credentials := filepath.Join(dir, "credentials")
	if err := os.WriteFile(credentials, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", key, secret), 0o600); err != nil {
		return nil, fmt.Errorf("write the credentials of S3: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", port)
	p, err := startProcess(dir, "versitygw", program, "--access", key, "--secret", secret, "--port", address, "--quiet", "posix", "--sidecar", filepath.Join(dir, "sidecar"), data)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: address})
		r.Out.Host = r.In.Host // requests are signed with it
	}}
	s3 := &slowS3{delay: &atomic.Int64{}}
	waiting, cancel := context.WithCancel(ctx)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pause(waiting, time.Duration(s3.delay.Load())) == nil {
			proxy.ServeHTTP(w, r)
		}
	}))
	s3.stop = func() error {
		cancel()
		front.Close()
		p.ask()
		return p.wait()
	}
	s3.fields = fmt.Sprintf("journal: {destination: \"s3://journal/mini\", endpoint: %q, region: us-east-1, credentialsFile: %q}\n", front.URL, credentials)
	return s3, nil
}

// restoredObjects is how many objects the figure journal-restore restores.
const restoredObjects = 100_000

var restoreRows = []row{
	{name: fmt.Sprintf("restore of %d objects from a journal", restoredObjects), unit: inSeconds, limit: 30},
	{name: "start of the restored server to ready", unit: inSeconds},
}

// measureRestore destroys a server and restores it. All objects are in segments, which
// takes longer than from a base.
func measureRestore(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(restoreRows)), nil
	}
	journal, err := b.newDir("journal")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(journal)) }()
	err = b.withJournal(ctx, directoryJournal(journal), func(c *creator) error {
		if err := c.fill(ctx, configMaps, "default", restoredObjects, payload, nil); err != nil {
			return err
		}
		return c.journaled(ctx)
	})
	if err != nil {
		return nil, err
	}
	dir, err := b.newDir("restored")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	settleDisk()
	began := time.Now()
	if _, err := output(ctx, dir, b.programs.ours, "backup", "restore", "--data-dir", filepath.Join(dir, "data"), "--from", journal); err != nil {
		return nil, err
	}
	values = append(values, since(began))
	began = time.Now()
	c, err := b.startOurs(ctx, dir)
	if err != nil {
		return nil, err
	}
	values = append(values, since(began))
	return values, errors.Join(b.checkRestored(ctx, c), c.stop())
}

// checkRestored counts the objects of the restored server.
func (b *bench) checkRestored(ctx context.Context, c *cluster) error {
	client, err := newAPI(c.config)
	if err != nil {
		return err
	}
	defer client.close()
	text, err := client.do(ctx, http.MethodGet, configMapsPath("default")+"?limit=1", nil)
	if err != nil {
		return err
	}
	var list struct {
		Metadata struct{ RemainingItemCount int }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read the list of restored objects: %w", err)
	}
	if n := list.Metadata.RemainingItemCount + 1; n < restoredObjects {
		return fmt.Errorf("%d objects were restored, want %d", n, restoredObjects)
	}
	return nil
}
