package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// UsedFile is the name of the file in a data directory that has the configuration of the
// server that uses the directory, or used it last.
const UsedFile = "used-config.json"

// used is the content of UsedFile.
type used struct {
	// File is the path of the configuration file; empty without one.
	File string `json:"file"`
	// Configuration is that of the file and the flags. Paths in the data directory are empty:
	// the directory may be moved.
	Configuration *ServerConfiguration `json:"configuration"`
}

// keepUsed keeps what [ServerConfiguration.UsedContent] returns. Complete calls it first.
func (c *ServerConfiguration) keepUsed() error {
	if c.record != nil {
		return nil
	}
	data, err := json.MarshalIndent(used{c.file, c}, "", "  ")
	if err != nil {
		return fmt.Errorf("render the configuration: %w", err)
	}
	c.record = append(data, '\n')
	return nil
}

// UsedContent returns the content of [UsedFile] for the configuration. Call it after Complete.
func (c *ServerConfiguration) UsedContent() []byte { return c.record }

// Used returns the configuration that a server has recorded in the data directory, completed
// for it, and the path of the server's configuration file, if it had one. Unknown fields are
// ignored: a newer release may have written them.
func Used(dataDir string) (cfg *ServerConfiguration, file string, err error) {
	path := filepath.Join(dataDir, UsedFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the configuration that the server has recorded: %w", err)
	}
	recorded := used{Configuration: Default()}
	if err := json.Unmarshal(data, &recorded); err != nil || recorded.Configuration == nil {
		return nil, "", fmt.Errorf("%s is not the record of a configuration (%v): name the configuration file with "+
			"--config; the next start of the server, also of one without a file, writes the record again", path, err)
	}
	cfg = recorded.Configuration
	cfg.DataDir = dataDir
	return cfg, recorded.File, cfg.Complete()
}
