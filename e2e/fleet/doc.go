// Package fleet tests several servers on one external etcd.
package fleet
