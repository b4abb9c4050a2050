package config

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/robfig/cron/v3"
)

// Backup says when archives of the server are made by themselves, and where.
type Backup struct {
	// Dir has the archives; empty means <dataDir>/backups.
	Dir string `json:"dir"`
	// Schedule is a cron expression in local time; empty means never.
	Schedule string `json:"schedule"`
	// Keep is how many scheduled archives stay.
	Keep int `json:"keep"`
	// EncryptTo are age recipients that archives are encrypted to.
	EncryptTo []string `json:"encryptTo"`
	// BeforeUpgrade makes an archive before another release takes over.
	BeforeUpgrade bool `json:"beforeUpgrade"`
}

func (b *Backup) validate(fail func(path, format string, args ...any)) {
	if b.Schedule != "" {
		switch schedule, err := cron.ParseStandard(b.Schedule); {
		case err == nil && schedule.Next(time.Now()).IsZero():
			fail("backup.schedule", "%q never comes; write a day that there is", b.Schedule)
		case err != nil:
			fail("backup.schedule", "%q is not a cron expression (%v); write five fields, as \"0 3 * * *\" for three in the morning, or \"@every 6h\"", b.Schedule, err)
		}
	}
	if b.Keep < 1 {
		fail("backup.keep", "%d would keep none; at least 1", b.Keep)
	}
	for i, recipient := range b.EncryptTo {
		if _, err := age.ParseRecipients(strings.NewReader(recipient)); err != nil {
			fail(fmt.Sprintf("backup.encryptTo[%d]", i), "%q is not an age recipient; write what age-keygen calls the public key, age1...", recipient)
		}
	}
}
