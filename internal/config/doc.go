// Package config owns the server's one configuration file: its types, their
// defaults, the strict loader, and the checks that need nothing but the file.
//
// It imports no other package of this module. Checks that need upstream's
// option set (flag names, feature gates, plugin names) belong to the API
// server package, which owns that set.
package config
