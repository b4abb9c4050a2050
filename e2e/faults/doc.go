// Package faults tests what a server does when the world around it fails: it is
// killed, stopped, flooded, or its disk, its files, its clock, its memory or its
// file descriptors are taken from it. What concurrent clients see meanwhile is
// checked for linearizability. What a journal restores is compared with
// what was acknowledged.
//
// The tests are as short as they can be and still test; `make faults` runs them
// at length (see counts).
package faults
