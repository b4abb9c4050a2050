package testplane

import (
	"os"
	"strings"
)

// Forwarded are the signals that this process passes on to a command.
var Forwarded = []os.Signal{os.Interrupt}

// ending are the signals that end a run without a command.
var ending = []os.Signal{os.Interrupt}

// ExportLine returns the line that sets a variable of the environment in PowerShell.
func ExportLine(name, value string) string {
	return "$env:" + name + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
}
