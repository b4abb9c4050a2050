package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// figure is something that is measured in one go on one side. Each of its
// rows becomes a line of the table.
type figure struct {
	name string
	rows []row
	// measure returns a value for each row.
	measure func(ctx context.Context, b *bench, s side) ([]float64, error)
}

// row describes a value and its target.
type row struct {
	name string
	unit unit
	// higher means that more is better.
	higher bool
	// ratio is the bound for ours / theirs, limit the bound for ours alone; 0
	// is none. They are upper bounds, or lower ones if higher is better.
	ratio, limit float64
	// reason is why a target is missed, if that is known.
	reason string
}

// figures lists everything that is measured, those with targets first.
func figures(s settings) []figure {
	list := []figure{
		{"start", []row{
			{name: "cold start to first authenticated write", unit: inSeconds, ratio: 0.2, limit: 0.9,
				reason: "what an empty etcd lacks: authorities and keys to make, 200 objects to write with a sync each; theirs differs by half from run to run"},
			{name: "cold start to a namespace with its service account and root CA", unit: inSeconds},
			{name: "processor time of the cold start until then", unit: inSeconds},
			{name: "warm start to first authenticated write", unit: inSeconds, ratio: 0.25,
				reason: "building the API servers, which a warm start must do as well; theirs differs by half from run to run"},
			{name: "warm start to a namespace with its service account and root CA", unit: inSeconds},
			{name: "processor time of the warm start until then", unit: inSeconds},
		}, measureStart},
		{"stop", []row{{name: "stop with 100 watches", unit: inSeconds, limit: 1}}, measureStop},
		{"idle", []row{
			{name: "idle anonymous memory, all processes", unit: inBytes, ratio: 0.35, limit: 80e6,
				reason: "a live heap of 40 MB and 1,300 stacks"},
			{name: "idle resident pages of files, which the kernel takes back when it needs them", unit: inBytes},
			{name: "idle CPU, of a core", unit: inPercent, ratio: 0.5,
				reason: "timers of the metrics of upstream's workqueues and of raft"},
			{name: "idle disk writes per second", unit: inBytes, ratio: 0.25},
			{name: "goroutines", unit: plain},
			{name: "live heap, after a collection", unit: inBytes},
		}, measureIdle},
		{"throughput-configmaps", throughputRows("config maps", map[string]float64{"creates": 1.5, "gets": 2}), throughput(configMaps, nil)},
		{"namespace-empty", []row{{name: "empty namespace deletion", unit: inSeconds, limit: 0.3}}, measureEmptyNamespace(0)},
		{"namespace-full", []row{{name: "deletion of a namespace with 2,000 objects of 3 types", unit: inSeconds, ratio: 0.15}}, measureFullNamespace},
		{"gc-background-2000", []row{{name: "2,000 dependents collected in the background", unit: inSeconds, ratio: 0.05}}, measureCollection},
		{"throughput-widgets", throughputRows("custom resources", nil), throughput(widgets, func(ctx context.Context, f fixture) error { return f.define(ctx, "widgets") })},
		{"watch", []row{
			{name: "watch fan-out to 200 watchers, write to event, p50", unit: inSeconds},
			{name: "watch fan-out to 200 watchers, write to event, p99", unit: inSeconds},
		}, measureFanOut},
		{"custom-resource", []row{{name: "custom resource made 1 s after its CRD, collected with its owner", unit: inSeconds}}, measureYoungCustomResource},
		{"apply", []row{{name: "kubectl apply --server-side of 200 objects", unit: inSeconds}}, measureApply},
		{"silent-remote", remoteRows, measureRemote},
		{"lists", manyClientsRows(fmt.Sprintf("%d lists of %d objects at once", listsAtOnce, listedObjects)), measureLists},
		{"watches", manyClientsRows(fmt.Sprintf("%d watches that begin with %d objects", watchesAtOnce, initialEvents)), measureWatches},
		{"run", testServerRows, measureTestServers},
		{"library", libraryRows, measureLibrary},
		{"planes", planesRows, measurePlanes},
		{"journal", journalRows, measureJournal},
	}
	return append(list, optionalFigures(s)...)
}

// optionalFigures lists what takes long or needs an archive.
func optionalFigures(s settings) (list []figure) {
	if s.crds > 0 {
		list = append(list, figure{"namespace-empty-crds", []row{
			{name: fmt.Sprintf("empty namespace deletion with %d CRDs", s.crds), unit: inSeconds, limit: 0.3},
		}, measureEmptyNamespace(s.crds)})
	}
	// The archive is no part of the repository.
	if _, err := os.Stat(s.crdArchive); err == nil || strings.Contains(","+s.run, ",crds") {
		list = append(list, crdFigure(s), figure{"crds-apply", []row{{name: "kubectl apply --server-side of the CRDs", unit: inSeconds}}, measureApplyCRDs})
	}
	if slices.Contains(strings.Split(s.run, ","), "sizing-objects") { // takes minutes
		list = append(list, objectsFigure())
	}
	if slices.Contains(strings.Split(s.run, ","), "large-objects") { // takes minutes and gigabytes
		list = append(list, figure{"large-objects", largeRows, measureLargeObjects})
	}
	if slices.Contains(strings.Split(s.run, ","), "journal-restore") { // as above
		list = append(list, figure{"journal-restore", restoreRows, measureRestore})
	}
	if slices.Contains(strings.Split(s.run, ","), "floods") { // as above
		list = append(list, figure{"floods", floodRows(), measureFloods})
	}
	if slices.Contains(strings.Split(s.run, ","), "crds-x16") { // takes minutes and gigabytes
		list = append(list, crdFigureOf("crds-x16", sizingSteps, 16))
	}
	return list
}

func listFigures(out io.Writer, list []figure) error {
	for _, f := range list {
		for i, r := range f.rows {
			name := f.name
			if i > 0 {
				name = ""
			}
			if _, err := fmt.Fprintf(out, "%-22s %s\n", name, r.name); err != nil {
				return fmt.Errorf("list the figures: %w", err)
			}
		}
	}
	return nil
}

// since is the time since then in seconds.
func since(began time.Time) float64 { return time.Since(began).Seconds() }
