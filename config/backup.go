package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/robfig/cron/v3"
)

// Backup configures backups: where they are written, and the schedule of the server.
type Backup struct {
	// Dir has the backups; empty means <dataDir>/backups.
	Dir string `json:"dir"`
	// Schedule is a cron expression in local time; empty means never.
	Schedule string `json:"schedule"`
	// Keep is how many scheduled backups stay.
	Keep int `json:"keep"`
	// EncryptTo are age recipients that backups are encrypted to.
	EncryptTo []string `json:"encryptTo"`
	// Endpoint enables backups through the API.
	Endpoint Switch `json:"endpoint"`
	// BeforeUpgrade makes a backup before another release takes over.
	BeforeUpgrade bool `json:"beforeUpgrade"`
}

// Switch is On or Off.
type Switch string

// The values of a Switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// UnmarshalJSON also accepts a boolean: in YAML 1.1 a plain off is one.
func (s *Switch) UnmarshalJSON(data []byte) error {
	switch text := string(data); text {
	case "true":
		*s = On
	case "false":
		*s = Off
	default:
		return json.Unmarshal(data, (*string)(s))
	}
	return nil
}

// CheckSchedule returns what is wrong with the cron expression of a schedule, which may be empty.
// The error goes on from the expression: "is not ...".
func CheckSchedule(text string) error {
	if text == "" {
		return nil
	}
	schedule, err := cron.ParseStandard(text)
	switch {
	case err != nil:
		return fmt.Errorf("is not a cron expression (%w); write five fields, as \"0 3 * * *\" for three in the morning, "+
			"or \"@every 6h\"", err)
	case schedule.Next(time.Now()).IsZero():
		return errors.New("never fires: there is no such date; write a date that exists")
	}
	return nil
}

func (b *Backup) validate(fail func(path, format string, args ...any)) {
	if err := CheckSchedule(b.Schedule); err != nil {
		fail("backup.schedule", "%q %v", b.Schedule, err)
	}
	if b.Keep < 1 {
		fail("backup.keep", "%d would keep none; at least 1", b.Keep)
	}
	if b.Endpoint != On && b.Endpoint != Off {
		fail("backup.endpoint", "%q is not supported; allowed: on, off", b.Endpoint)
	}
	for i, recipient := range b.EncryptTo {
		if _, err := age.ParseRecipients(strings.NewReader(recipient)); err != nil {
			fail(fmt.Sprintf("backup.encryptTo[%d]", i),
				"%q is not an age recipient; write the public key that age-keygen prints, age1...", recipient)
		}
	}
}
