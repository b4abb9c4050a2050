// Package help has the help topics: Markdown files that are compiled into the
// program. It renders them for a terminal and as manual pages.
package help
