package config

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Defragment configures when the embedded database is rewritten without its free
// pages. Reads and writes block until that is done.
type Defragment struct {
	// FreePercent of the file; 0 never defragments.
	FreePercent int `json:"freePercent"`
	// MinimumSize of the file.
	MinimumSize resource.Quantity `json:"minimumSize"`
	// MaximumInUse is how much may be in use at any hour; a database with more
	// in use is defragmented in Window only.
	MaximumInUse resource.Quantity `json:"maximumInUse"`
	Window       Window            `json:"window"`
}

// Window is a time of the day, as "02:00-05:00", in local time. It may go past
// midnight. Empty means never.
type Window string

// Contains reports whether t is in the window. The window is valid.
func (w Window) Contains(t time.Time) bool {
	from, to, err := w.parse()
	if err != nil || w == "" {
		return false
	}
	now := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if from <= to {
		return from <= now && now < to
	}
	return from <= now || now < to
}

// parse returns the time from midnight of both ends.
func (w Window) parse() (from, to time.Duration, err error) {
	if w == "" {
		return 0, 0, nil
	}
	first, second, found := strings.Cut(string(w), "-")
	if !found {
		return 0, 0, fmt.Errorf("it has no second time")
	}
	var ends [2]time.Duration
	for i, text := range []string{first, second} {
		t, err := time.Parse("15:04", strings.TrimSpace(text))
		if err != nil {
			return 0, 0, fmt.Errorf("%q is not a time", text)
		}
		ends[i] = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	if ends[0] == ends[1] {
		return 0, 0, fmt.Errorf("it is empty")
	}
	return ends[0], ends[1], nil
}

func (d *Defragment) validate(fail func(path, format string, args ...any)) {
	const path = "etcd.embedded.defragment."
	if d.FreePercent < 0 || d.FreePercent > 100 {
		fail(path+"freePercent", "%d is not a percentage; allowed: 1 to 100, or 0 to defragment on command only",
			d.FreePercent)
	}
	if d.MinimumSize.Sign() < 0 {
		fail(path+"minimumSize", "%s is negative; write 0 for a database of any size", d.MinimumSize.String())
	}
	if d.MaximumInUse.Sign() < 0 {
		fail(path+"maximumInUse", "%s is negative; write 0 to defragment in the window only", d.MaximumInUse.String())
	}
	if _, _, err := d.Window.parse(); err != nil {
		fail(path+"window", "%q is not a time of the day: %v; write two times, as \"02:00-05:00\", or nothing for never",
			d.Window, err)
	}
}
