// Command release makes the parts of a release that the same bytes must come
// out of each time: bills of materials and provenance. The time in all
// of them is SOURCE_DATE_EPOCH.
//
//	release sbom BINARY OUT.json             CycloneDX, from the build information in the binary
//	release provenance FILE OUT.json         in-toto and SLSA, from the environment (see provenance.go)
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: release sbom BINARY OUT | release provenance FILE OUT")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	moment := time.Unix(seconds, 0).UTC()
	switch args[0] {
	case "sbom":
		return sbom(args[1], args[2], moment)
	case "provenance":
		return provenance(args[1], args[2], moment)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
