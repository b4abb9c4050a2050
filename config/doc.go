// Package config has the server's one configuration file: its Go types, their defaults,
// the documented file with every field, the strict loader, and the checks that need
// nothing but the file.
//
// It imports no other package of this module. Checks that need upstream's option set
// (names of flags, feature gates and plugins) belong to the API server.
package config

import _ "embed"

// Documented is the file with every field at its default and its meaning.
//
//go:embed config.yaml
var Documented string
