package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

const (
	crdClients     = 8  // that create CRDs
	crdProbes      = 20 // types that are listed once all CRDs are there
	coldTypes      = 5  // types for each first request
	listingUsers   = 10
	leftOf         = 10                     // memory is given back when a tenth of its goal or less is left
	crdPoll        = 100 * time.Millisecond // is a request for a whole CRD, which takes the server's time
	crdNamespace   = "default"
	afterwards     = time.Minute
	tableAccept    = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metadataAccept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	discoveryType  = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

func anyType(definition) bool { return true }

// The steps for the sizes of servers.
var (
	loadStep = crdStep{"load", func(g crdGoals) []row {
		return []row{{name: "first POST until all are Established and listed", unit: inSeconds, limit: g.established},
			{name: "anonymous memory, highest while they come", unit: inBytes, limit: g.highest},
			{name: "processor time of it", unit: inSeconds}}
	}, (*crdRun).load, true}
	restedStep = crdStep{"rest", func(g crdGoals) []row {
		return []row{{name: "anonymous memory a minute after", unit: inBytes, limit: g.after},
			{name: "goroutines a minute after, beyond an empty server's", unit: plain, limit: 100},
			{name: "CPU at rest, beyond an empty server's", unit: inPercent, limit: g.idle},
			{name: "live heap, after a collection", unit: inBytes}}
	}, (*crdRun).rested, false}
	restartStep = crdStep{"restart", func(g crdGoals) []row {
		return []row{{name: "database and log on disk", unit: inBytes}, {name: "warm start to ready", unit: inSeconds, limit: g.warm},
			{name: "processor time of the warm start, until a new namespace has its service account and root CA", unit: inSeconds}}
	}, (*crdRun).restart, true}
	sizingSteps = []crdStep{loadStep, restedStep, restartStep}
)

// crdSteps run in this order.
var crdSteps = []crdStep{
	loadStep, restedStep,
	{"metrics", func(crdGoals) []row {
		return []row{{name: "size of /metrics", unit: inBytes, limit: 2e6}, {name: "time of /metrics", unit: inSeconds, limit: 0.3}}
	}, (*crdRun).scrape, false},
	{"in-use", func(crdGoals) []row {
		return []row{{name: "each type in use, memory with 100 objects", unit: inBytes},
			{name: "each type in use, memory beyond as many objects of one type", unit: inBytes, limit: 1e6}, {name: "each type in use, goroutines", unit: plain, limit: 30}}
	}, (*crdRun).inUse, false},
	{"first-requests", func(crdGoals) []row {
		return []row{{name: "first LIST of a cold type", unit: inSeconds, limit: 0.05}, {name: "first create", unit: inSeconds, limit: 0.05},
			{name: "first server-side apply", unit: inSeconds, limit: 0.05}}
	}, (*crdRun).firstRequests, false},
	{"table", func(g crdGoals) []row { return []row{{name: "kubectl get crds", unit: inSeconds, limit: g.list}} }, (*crdRun).table, false},
	{"list-and-watch", func(g crdGoals) []row {
		return []row{{name: "list and watch of all CRDs by 10 clients", unit: inSeconds}, {name: "memory for it", unit: inBytes, limit: g.listMemory},
			{name: "memory of it that is left a minute after", unit: inBytes, limit: g.listMemory / leftOf}}
	}, (*crdRun).listByMany, false},
	{"documents", func(crdGoals) []row {
		return []row{{name: "first /openapi/v3 document of a group", unit: inSeconds, limit: 1},
			{name: "processor time of it", unit: inSeconds}, {name: "discovery whole", unit: inSeconds, limit: 0.1}}
	}, (*crdRun).documents, false},
	{"openapi-v2", func(g crdGoals) []row {
		return []row{{name: "/openapi/v2", unit: inSeconds, limit: g.openAPIv2}, {name: "memory for /openapi/v2", unit: inBytes, limit: g.openAPIv2Memory},
			{name: "memory of /openapi/v2 that is left a minute after", unit: inBytes, limit: g.openAPIv2Memory / leftOf}}
	}, (*crdRun).openAPIv2, false},
	{"watch-all", func(g crdGoals) []row {
		return []row{{name: "anonymous memory while one client lists and watches every type", unit: inBytes, limit: g.client}}
	}, (*crdRun).watchAll, false},
	restartStep,
	{"delete", func(crdGoals) []row {
		return []row{{name: "memory a minute after all CRDs were deleted, of an empty server's", unit: plain, limit: 1.15,
			reason: "the OpenAPI documents of built-in types, which the first request for them builds: 20 MB that an empty server has not"}}
	}, (*crdRun).deleteAll, false},
}

// load creates all CRDs, and lists some of their types when all are Established.
func (r *crdRun) load(ctx context.Context) ([]float64, error) {
	var seconds, highest float64
	processor, err := r.processorTime(func() (err error) {
		highest, seconds, err = r.createAll(ctx)
		return err
	})
	return []float64{seconds, highest, processor}, err
}

// createAll returns the highest memory meanwhile, in bytes, and the time in seconds.
func (r *crdRun) createAll(ctx context.Context) (highest, seconds float64, err error) {
	highest, err = r.peak(func() error {
		began := time.Now()
		defer func() { seconds = since(began) }()
		if err := r.inParallel(ctx, crdClients, len(r.set), func(ctx context.Context, client *api, i int) error {
			answer, err := client.do(ctx, http.MethodPost, crdsPath, r.set[i].body)
			for err == nil && !established(answer) {
				if err = pause(ctx, crdPoll); err == nil {
					answer, err = client.do(ctx, http.MethodGet, crdsPath+"/"+r.set[i].name, nil)
				}
			}
			return err
		}); err != nil {
			return err
		}
		for _, d := range pick(r.set, crdProbes, anyType) {
			if err := r.await(ctx, "a custom resource to be listed", func(ctx context.Context) error {
				return r.discard(ctx, http.MethodGet, d.path(crdNamespace), nil)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return highest, seconds, err
}

// established reports whether a CRD has that condition.
func established(crd []byte) bool {
	var c struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if decode(crd, &c) != nil {
		return false
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == "Established" && condition.Status == "True" {
			return true
		}
	}
	return false
}

func (r *crdRun) rested(ctx context.Context) ([]float64, error) {
	if err := pause(ctx, afterwards); err != nil {
		return nil, err
	}
	memory, err := r.memory()
	if err != nil {
		return nil, err
	}
	// The minute before has the collections after the load.
	now, err := r.idle(ctx)
	if err != nil {
		return nil, err
	}
	live, err := r.liveHeap(ctx)
	return []float64{memory, now.goroutines - r.empty.goroutines, now.cpu - r.empty.cpu, live}, err
}

func (r *crdRun) scrape(ctx context.Context) ([]float64, error) {
	var size int
	began := time.Now()
	for _, url := range r.metrics {
		text, err := r.do(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		size += len(text)
	}
	return []float64{float64(size), since(began)}, nil
}

// firstRequests takes the median of several types for each kind of request.
func (r *crdRun) firstRequests(ctx context.Context) ([]float64, error) {
	cold := pick(r.set, 3*coldTypes+1, bareType)
	if len(cold) < 4 {
		return nil, errors.New("too few types have objects without a spec")
	}
	cold = cold[1:] // the first has been listed
	requests := []func(d definition) error{
		func(d definition) error { return r.discard(ctx, http.MethodGet, d.path(crdNamespace), nil) },
		func(d definition) error {
			return r.discard(ctx, http.MethodPost, d.path(crdNamespace), d.object("first"))
		},
		func(d definition) error { return r.apply(ctx, d, "first") },
	}
	samples := make([][]float64, len(requests))
	for i, d := range cold {
		began := time.Now()
		if err := requests[i%len(requests)](d); err != nil {
			return nil, err
		}
		samples[i%len(requests)] = append(samples[i%len(requests)], since(began))
	}
	return []float64{median(samples[0]), median(samples[1]), median(samples[2])}, nil
}

func (r *crdRun) table(ctx context.Context) ([]float64, error) {
	began := time.Now()
	_, err := r.accept(ctx, crdsPath, tableAccept)
	return []float64{since(began)}, err
}

func (r *crdRun) listByMany(ctx context.Context) ([]float64, error) {
	grown, seconds, left, err := r.grownAndLeft(ctx, func() error {
		return r.inParallel(ctx, listingUsers, listingUsers, func(ctx context.Context, client *api, _ int) error {
			if err := retriedLater(ctx, func() error { return client.discard(ctx, http.MethodGet, crdsPath, nil) }); err != nil {
				return err
			}
			var w *watch
			if err := retriedLater(ctx, func() (err error) {
				w, err = client.watch(ctx, crdsPath, "")
				return err
			}); err != nil {
				return err
			}
			defer w.close()
			for range r.set {
				if _, err := w.next(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return []float64{seconds, grown, left}, err
}

func (r *crdRun) documents(ctx context.Context) ([]float64, error) {
	// As kubectl does, the list first: the first request for it builds the built-in types' documents.
	if err := r.discard(ctx, http.MethodGet, "/openapi/v3", nil); err != nil {
		return nil, err
	}
	d := r.set[len(r.set)/3]
	began := time.Now()
	processor, err := r.processorTime(func() error {
		return r.discard(ctx, http.MethodGet, "/openapi/v3/apis/"+d.group+"/"+d.version, nil)
	})
	if err != nil {
		return nil, err
	}
	document := since(began)
	began = time.Now()
	text, err := r.accept(ctx, "/apis", discoveryType)
	seconds := since(began)
	if err == nil && !bytes.Contains(text, []byte(d.plural)) {
		err = fmt.Errorf("discovery does not have %s", d.name)
	}
	return []float64{document, processor, seconds}, err
}

func (r *crdRun) openAPIv2(ctx context.Context) ([]float64, error) {
	grown, seconds, left, err := r.grownAndLeft(ctx, func() error { return r.discard(ctx, http.MethodGet, "/openapi/v2", nil) })
	return []float64{seconds, grown, left}, err
}

// watchAll lists every type and leaves a watch open on each.
func (r *crdRun) watchAll(ctx context.Context) ([]float64, error) {
	highest, err := r.peak(func() error {
		for _, d := range r.set {
			path := strings.Replace(d.path(crdNamespace), "/namespaces/"+crdNamespace, "", 1)
			var list []byte
			if err := retried(ctx, func() (err error) {
				list, err = r.do(ctx, http.MethodGet, path, nil)
				return err
			}); err != nil {
				return err
			}
			version, err := resourceVersion(list)
			if err != nil {
				return err
			}
			w, err := r.watch(ctx, path, "resourceVersion="+version)
			if err != nil {
				return err
			}
			defer w.close()
		}
		return nil
	})
	return []float64{highest}, err
}

// restart stops the server, measures what is on the disk, and starts it again.
func (r *crdRun) restart(ctx context.Context) ([]float64, error) {
	if err := r.stop(); err != nil {
		return nil, err
	}
	size, err := databaseSize(r.dir)
	if err != nil {
		return nil, err
	}
	if err := r.startAgain(ctx); err != nil {
		return nil, err
	}
	used, err := r.usage()
	return []float64{size, r.firstWrite.Seconds(), used.cpu}, err
}

// startAgain starts the side on its data.
func (r *crdRun) startAgain(ctx context.Context) error {
	c, err := r.side.start(ctx, r.dir)
	if err != nil {
		return err
	}
	*r.cluster = *c
	client, err := newAPI(c.config)
	if err != nil {
		return err
	}
	r.close()
	*r.api = *client
	return nil
}

// databaseSize is the size of the database and of the log below dir, in bytes.
func databaseSize(dir string) (size float64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(path, string(filepath.Separator)+"member"+string(filepath.Separator)) {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure the database: %w", err)
	}
	return size, nil
}

func (r *crdRun) deleteAll(ctx context.Context) ([]float64, error) {
	for {
		err := r.discard(ctx, http.MethodDelete, crdsPath, nil)
		if err == nil {
			break
		}
		// A server ends the request after a minute, if its response has begun without a status.
		var status *statusError
		if ctx.Err() != nil || errors.As(err, &status) && status.code != http.StatusGatewayTimeout {
			return nil, err
		}
	}
	for _, d := range r.set {
		if err := r.awaitAbsent(ctx, d); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, afterwards); err != nil {
		return nil, err
	}
	now, err := r.memory()
	return []float64{now / r.empty.memory}, err
}
