package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The types mirror the JSON of an in-toto Statement v1 with a SLSA provenance v1
// predicate (https://slsa.dev/spec/v1.0/provenance).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	URI    string            `json:"uri,omitempty"`
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder  map[string]string `json:"builder"`
		Metadata map[string]string `json:"metadata"`
	} `json:"runDetails"`
}

const buildType = "https://kube-hyper-mini.io/scripts/release.sh"

// provenance writes from which commit, with which toolchain and how an archive
// was built. The environment says what only the script knows: VERSION, COMMIT,
// PLATFORM, GO_VERSION, LDFLAGS, and BUILDER_ID, which may be empty.
func provenance(file, out string, moment time.Time) error {
	digest, err := sha256sum(file)
	if err != nil {
		return err
	}
	var errs []error
	env := func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
		return value
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []resource{{Name: filepath.Base(file), Digest: map[string]string{"sha256": digest}}},
	}
	definition, run := &s.Predicate.BuildDefinition, &s.Predicate.RunDetails
	definition.BuildType = buildType
	definition.ExternalParameters = map[string]string{"version": env("VERSION"), "platform": env("PLATFORM")}
	definition.InternalParameters = map[string]string{"ldflags": env("LDFLAGS"), "cgoEnabled": os.Getenv("CGO_ENABLED")}
	definition.ResolvedDependencies = []resource{
		{URI: "git+https://kube-hyper-mini.io/kube-hyper-mini", Digest: map[string]string{"gitCommit": env("COMMIT")}},
		{URI: "https://go.dev/dl/", Name: env("GO_VERSION")},
	}
	run.Builder = map[string]string{"id": buildType}
	if id := os.Getenv("BUILDER_ID"); id != "" {
		run.Builder["id"] = id
	}
	run.Metadata = map[string]string{"finishedOn": moment.Format(time.RFC3339)}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write the provenance of %s: %w", file, err)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(data, '\n'), 0o644)
}
