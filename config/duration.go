package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// Duration is a duration in the file or in a flag: as 90s or 1.5h, and as 7d, 2w or 1y.
type Duration struct{ time.Duration }

// ParseDuration parses the text of a [Duration].
func ParseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number with a unit, as 90s, 12h, 30d or 1y", text)
	}
	return time.Duration(d), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	d.Duration, err = ParseDuration(text)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }
