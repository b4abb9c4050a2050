package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Of the figure large-objects.
const (
	largeObjects  = 2000
	largeSize     = 1040000 // a config map has at most 1 MiB
	largeListPage = 500     // that of kubectl
	largeListers  = 4
)

var largeWhat = fmt.Sprintf("%d config maps of 1 MiB: ", largeObjects)

var largeRows = []row{
	{name: largeWhat + "anonymous memory, highest while they come", unit: inBytes},
	{name: largeWhat + "anonymous memory a minute after", unit: inBytes, limit: 2.5 * largeObjects * largeSize},
	{name: largeWhat + "highest in a start after a kill", unit: inBytes, limit: 2.5 * largeObjects * largeSize},
	{name: largeWhat + "a minute after it", unit: inBytes, limit: 2.5 * largeObjects * largeSize},
	{name: largeWhat + "highest in the first start after a restore from a backup", unit: inBytes, limit: 2.5 * largeObjects * largeSize},
	{name: largeWhat + fmt.Sprintf("highest while %d clients list them, %d at a time", largeListers, largeListPage), unit: inBytes, limit: 2.5*largeObjects*largeSize + 2e9},
	{name: largeWhat + "highest while they are deleted", unit: inBytes, limit: 2.5*largeObjects*largeSize + 2e9},
	{name: largeWhat + "a minute after that", unit: inBytes},
}

func measureLargeObjects(ctx context.Context, b *bench, side side) (values []float64, err error) {
	err = b.withFixture(ctx, side, func(f fixture) error {
		r := &crdRun{fixture: f, bench: b, side: side}
		for i, step := range []func(context.Context) (float64, error){
			func(ctx context.Context) (float64, error) {
				return r.peak(func() error {
					return r.inParallel(ctx, largeListers, largeObjects, func(ctx context.Context, client *api, i int) error {
						return client.discard(ctx, http.MethodPost, configMapsPath("default"), configMap(objectName(i), "", nil, largeSize))
					})
				})
			},
			r.memoryLater, r.killedStart, r.memoryLater, r.restoredStart,
			func(ctx context.Context) (float64, error) { return r.peak(func() error { return r.listPages(ctx) }) },
			func(ctx context.Context) (float64, error) { return r.peak(func() error { return r.deleteLarge(ctx) }) },
			r.memoryLater,
		} {
			value, err := step(ctx)
			if err != nil {
				return err
			}
			b.say("%s, %s: %s", side.name, largeRows[i].name, largeRows[i].unit.format(value))
			values = append(values, value)
		}
		return nil
	})
	return values, err
}

// memoryLater is the memory a minute later.
func (r *crdRun) memoryLater(ctx context.Context) (float64, error) {
	if err := pause(ctx, afterwards); err != nil {
		return 0, err
	}
	return r.memory()
}

// killedStart kills the processes and returns the highest memory of their next start.
func (r *crdRun) killedStart(ctx context.Context) (float64, error) {
	for _, stage := range r.stages {
		for _, p := range stage {
			if err := p.cmd.Process.Kill(); err != nil {
				return 0, fmt.Errorf("kill %s: %w", p.name, err)
			}
			<-p.exited
		}
	}
	if err := r.startAgain(ctx); err != nil {
		return 0, err
	}
	return r.highest()
}

// restoredStart saves a backup, restores it, and returns the highest memory of the first start
// on its data. The other side has no backups.
func (r *crdRun) restoredStart(ctx context.Context) (float64, error) {
	if r.side.name != ours {
		return math.NaN(), nil
	}
	data, archive := filepath.Join(r.dir, "data"), filepath.Join(r.dir, "backup.tar.gz")
	command := func(args ...string) error {
		_, err := output(ctx, r.dir, r.bench.programs.ours, append([]string{"backup", args[0], archive, "--data-dir", data}, args[1:]...)...)
		return err
	}
	if err := command("save"); err != nil {
		return 0, err
	}
	if err := r.stop(); err != nil {
		return 0, err
	}
	if err := errors.Join(os.RemoveAll(data), command("restore"), os.Remove(archive)); err != nil {
		return 0, fmt.Errorf("restore the backup: %w", err)
	}
	if err := r.startAgain(ctx); err != nil {
		return 0, err
	}
	return r.highest()
}

// listPages lists the objects with several clients at once.
func (r *crdRun) listPages(ctx context.Context) error {
	listing, ctx := errgroup.WithContext(ctx)
	for range largeListers {
		listing.Go(func() error {
			next := ""
			for first := true; first || next != ""; first = false {
				path := fmt.Sprintf("%s?limit=%d&continue=%s", configMapsPath("default"), largeListPage, url.QueryEscape(next))
				err := retriedLater(ctx, func() (err error) {
					next, err = r.page(ctx, path)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return listing.Wait()
}

// page reads a page of a list without keeping it, and returns the token of the next one.
func (r *crdRun) page(ctx context.Context, path string) (next string, err error) {
	response, err := r.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	body := bufio.NewReader(response.Body)
	const metadata = 2000 // comes first
	beginning, err := body.Peek(metadata)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if _, after, found := strings.Cut(string(beginning), `"continue":"`); found {
		next, _, _ = strings.Cut(after, `"`)
	}
	return next, nil
}

// deleteLarge deletes the objects in one request, or in more if it times out.
func (r *crdRun) deleteLarge(ctx context.Context) error {
	for {
		err := retriedLater(ctx, func() error { return r.discard(ctx, http.MethodDelete, configMapsPath("default"), nil) })
		var status *statusError
		if !errors.As(err, &status) || status.code != http.StatusGatewayTimeout {
			return err
		}
	}
}
