package android.content;

public class ContentProviderClient { public void close() {} }
