// Package parts makes the parts of a server from its configuration, for the server and for
// commands that work on the data directory of a stopped one. Only [config.ServerConfiguration]
// has all settings: each part gets those that it reads.
package parts
