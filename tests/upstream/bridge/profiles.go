// Package runtime gets this file beside upstream's own: with it, plugins of a profile are found by their names, and
// pods that another process holds in Permit wait here, too, for plugins that look who waits.
package runtime

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The other process ends the wait in time.
const heldAtMost = 24 * time.Hour

// PluginOf returns the plugin that a profile has under a registered name, which need not be what Name returns; nil
// where it has none.
func PluginOf(profile any, name string) any {
	plugin, found := profile.(*frameworkImpl).pluginsMap[name]
	if !found {
		return nil
	}
	return plugin
}

// PreFiltersOf returns the PreFilter plugins of a profile, in its order.
func PreFiltersOf(profile any) []any {
	var plugins []any
	for _, plugin := range profile.(*frameworkImpl).preFilterPlugins {
		plugins = append(plugins, plugin)
	}
	return plugins
}

// LastPermitOf returns which of the plugins is the last that the profile asks for permission; nil where it asks none.
func LastPermitOf(profile any, plugins []any) any {
	var last any
	for _, permit := range profile.(*frameworkImpl).permitPlugins {
		for _, plugin := range plugins {
			if any(permit) == plugin {
				last = plugin
			}
		}
	}
	return last
}

// Hold has a pod wait for the permission of plugins, by what their Name returns.
func Hold(profile any, pod *v1.Pod, plugins []string) {
	waits := map[string]time.Duration{}
	for _, plugin := range plugins {
		waits[plugin] = heldAtMost
	}
	profile.(*frameworkImpl).waitingPods.add(newWaitingPod(pod, waits))
}

// Held returns the status that ended a pod's wait; false while it waits, and where it does not.
func Held(profile any, uid types.UID) (any, bool) {
	waiting := profile.(*frameworkImpl).waitingPods
	pod := waiting.get(uid)
	if pod == nil {
		return nil, false
	}
	select {
	case status := <-pod.s:
		waiting.remove(uid)
		return status, true
	default:
		return nil, false
	}
}

// LetGo ends a pod's wait that the other process has ended.
func LetGo(profile any, uid types.UID) {
	waiting := profile.(*frameworkImpl).waitingPods
	if pod := waiting.get(uid); pod != nil {
		pod.Reject("", "")
		waiting.remove(uid)
	}
}
