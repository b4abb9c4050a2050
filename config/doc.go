// Package config embeds the documented configuration file, config.yaml.
package config

import _ "embed"

// Defaults is the file with every field at its default and its meaning. A test of
// internal/config holds it equal to the built-in defaults.
//
//go:embed config.yaml
var Defaults string
