package config

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for window, want := range map[Window][3]bool{ // at 01:59, 02:00 and 23:30
		"":            {},
		"02:00-05:00": {false, true, false},
		"23:00-02:00": {true, false, true},
		"00:00-02:00": {true, false, false},
	} {
		for i, clock := range []string{"01:59", "02:00", "23:30"} {
			at, err := time.Parse("15:04", clock)
			if err != nil {
				t.Fatal(err)
			}
			if got := window.Contains(at); got != want[i] {
				t.Errorf("%q at %s: %v", window, clock, got)
			}
		}
	}
	for _, wrong := range []Window{"02:00", "2-5", "25:00-26:00", "02:00-02:00"} {
		failed := ""
		d := Default().Etcd.Embedded.Defragment
		d.Window = wrong
		d.validate(func(path, _ string, _ ...any) { failed = path })
		if failed != "etcd.embedded.defragment.window" {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
