package android.content.pm;

public class ResolveInfo { public ServiceInfo serviceInfo; }
